"""Acts on processes: each function does one, gives whether it succeeded, and says what it tries.

Children end by themselves at once; nothing here is more than a few of them.
"""

import ctypes
import mmap
import multiprocessing
import os
import pathlib
import platform
import pty
import signal
import subprocess
import time

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
CLONE = {"x86_64": 56, "aarch64": 220}


def ended(pid):
    if pid == 0:
        os._exit(0)
    return pid > 0


def a_fork(host):
    """A child."""
    return ended(os.fork())


def forks(host):
    """A dozen children."""
    return len([pid for pid in (os.fork() for _ in range(12)) if ended(pid)]) == 12


def a_fork_in_c(host):
    """A child by the C library."""
    return ended(LIBC.fork())


def a_fork_by_its_number(host):
    """A child by the number of the call."""
    return ended(LIBC.syscall(CLONE[platform.machine()], signal.SIGCHLD, 0, 0, 0, 0))


def a_fork_by_its_new_number(host):
    """A child by the call that no filter can look into."""
    arguments = (ctypes.c_uint64 * 8)(0, 0, 0, 0, signal.SIGCHLD)
    return ended(LIBC.syscall(435, arguments, ctypes.sizeof(arguments)))


def a_fork_of_thirty_two_bits(host):
    """A child by the entry for old programs, where calls have other numbers."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes([0x53, 0xB8, 2, 0, 0, 0, 0xCD, 0x80, 0x5B, 0xC3]))
    return ended(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())


def a_fork_of_another_kind(host):
    """A child by the numbers of the x32 kind."""
    return ended(LIBC.syscall(0x40000000 + 57))


def a_fork_with_a_terminal(host):
    """A child with a terminal of its own."""
    return ended(pty.fork()[0])


def a_daemon(host):
    """A process that leaves its family and stays."""
    LIBC.prctl(15, host.tag[:15].encode(), 0, 0, 0)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(4.0)
        os._exit(0)
    return True


def a_program(host):
    """A program."""
    return subprocess.run(["/usr/bin/touch", host.marker], check=True)


def the_shell(host):
    """A line for the shell."""
    return os.system(f"touch {host.marker}") == 0


def the_shell_of_ipython(host):
    """A line for the shell, as a notebook gives it."""
    get_ipython().system(f"touch {host.marker}")
    return os.path.exists(host.marker)


def what_a_program_says(host):
    """A program, and what it says."""
    return os.popen("echo said").read()


def a_program_without_a_fork(host):
    """A program in one call, and its end, so that its mark is not made later."""
    return os.waitpid(os.posix_spawn("/usr/bin/touch", ["touch", host.marker], {}), 0)


def a_program_instead(host):
    """A program in the place of this one."""
    os.execv("/usr/bin/touch", ["touch", host.marker])


def a_program_from_memory(host):
    """A program that was never on any disk."""
    memory = os.memfd_create(host.tag)
    os.write(memory, pathlib.Path("/usr/bin/touch").read_bytes())
    os.execve(memory, ["touch", host.marker], {})


def a_pool(host):
    """The workers of a pool."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(abs, [1, 2])


def a_signal_to_the_grader(host):
    """A signal to the grader."""
    os.kill(host.grader, signal.SIGUSR1)
    return True


def a_signal_to_the_parent(host):
    """A signal to the process before this one, which would end it."""
    os.kill(os.getppid(), signal.SIGUSR1)
    return True


def a_signal_by_a_handle(host):
    """A signal by a handle on the process."""
    signal.pidfd_send_signal(os.pidfd_open(host.grader), signal.SIGUSR1)
    return True


def a_signal_with_a_letter(host):
    """A signal with a value."""
    return LIBC.sigqueue(host.grader, signal.SIGUSR1, 0) == 0


def a_signal_to_a_thread(host):
    """A signal to a thread of the grader."""
    return LIBC.tgkill(host.grader, host.grader, signal.SIGUSR1) == 0


def a_signal_by_the_terminal(host):
    """Whoever owns a file is sent signals when it can be read."""
    import fcntl

    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, host.grader)
    fcntl.fcntl(read, 10, signal.SIGUSR1)
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    return os.write(write, b"x") and fcntl.fcntl(read, fcntl.F_GETFL) & os.O_ASYNC
