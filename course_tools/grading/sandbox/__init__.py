"""The sandbox: a student's code runs in an unprivileged process; its responses are validated outside."""
