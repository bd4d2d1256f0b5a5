# The course in a container: Python, PyTorch for the CPU, JupyterLab. How to build and use it: docs/running.md
FROM python:3.11-slim

# Jupyter listens on every address of the container, so that a published port reaches it; it still asks for its token.
RUN useradd --create-home --uid 1000 student \
    && install -d -o 1000 -g 1000 /course /course/work /etc/jupyter \
    && echo '{"ServerApp": {"ip": "0.0.0.0"}}' > /etc/jupyter/jupyter_server_config.json
USER 1000
WORKDIR /course

# The packages first: after a change to a lecture the next build downloads nothing. An empty SETUP installs PyTorch with CUDA.
ARG SETUP=--cpu
ENV PIP_NO_CACHE_DIR=1
COPY --chown=1000:1000 course.py pyproject.toml LICENSE ./
COPY --chown=1000:1000 docs/library.md docs/
COPY --chown=1000:1000 course_lib/__init__.py course_lib/
RUN python course.py setup ${SETUP:+"$SETUP"}
COPY --chown=1000:1000 . .

EXPOSE 8888
ENTRYPOINT ["python", "course.py"]
CMD ["lab", "--no-browser", "--port", "8888"]
