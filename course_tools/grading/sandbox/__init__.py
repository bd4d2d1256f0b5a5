"""The sandbox: a student's code runs in a process without rights; its answers are validated outside."""
