"""Acts on limits, rights and the kernel: each function does one, gives whether it succeeded, and says what it tries."""

import ctypes
import os
import platform
import resource

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
ON_ARM = platform.machine() == "aarch64"


def the_limits_of_the_grader(host):
    """The limits of the grader."""
    return resource.prlimit(host.grader, resource.RLIMIT_CPU)


def its_own_limits(host):
    """Its own limits, as high as they may be, and higher."""
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE):
        resource.setrlimit(kind, (resource.RLIM_INFINITY,) * 2)
    return True


def the_place_of_the_grader(host):
    """The cores on which the grader may run."""
    os.sched_setaffinity(host.grader, os.sched_getaffinity(host.grader))
    return True


def the_patience_of_the_grader(host):
    """The priority of the grader."""
    os.setpriority(os.PRIO_PROCESS, host.grader, os.getpriority(os.PRIO_PROCESS, host.grader))
    return True


def a_higher_place(host):
    """A priority above all others."""
    return os.nice(-1) is not None


def a_debugger(host):
    """The grader is looked at as a debugger does."""
    LIBC.ptrace.argtypes = [ctypes.c_long] * 4
    return LIBC.ptrace(0x4206, host.grader, 0, 0) == 0


def to_be_debugged(host):
    """This process asks to be debugged by its parent, which then is told of each of its signals."""
    return LIBC.ptrace(0, 0, 0, 0) == 0


def another_session(host):
    """A session of its own, out of reach of the grader's signals to its group."""
    if os.getsid(0) == os.getpid():
        os.setpgid(0, 0)
        return False
    os.setsid()
    return True


def to_outlive_the_grader(host):
    """No signal any more when the parent dies."""
    return LIBC.prctl(1, 0, 0, 0, 0) == 0


def other_namespaces(host):
    """A world of its own, in which it is root."""
    return LIBC.unshare(0x10000000) == 0


def other_rights(host):
    """Another user."""
    os.setresuid(os.getuid(), os.getuid(), os.getuid())
    return True


def another_name_of_the_machine(host):
    """The name of the machine, set to what it is."""
    return LIBC.sethostname(platform.node().encode(), len(platform.node())) == 0


def memory_that_stays(host):
    """Memory of the old kind, which outlives its process."""
    id = LIBC.shmget(0, 4096, 0o1600)
    return id >= 0 and LIBC.shmctl(id, 0, None) == 0


def a_queue_that_stays(host):
    """A queue of messages, which outlives its process."""
    id = LIBC.msgget(0, 0o1600)
    return id >= 0 and LIBC.msgctl(id, 0, None) == 0


def a_semaphore_that_stays(host):
    """A semaphore, which outlives its process."""
    id = LIBC.semget(0, 1, 0o1600)
    return id >= 0 and LIBC.semctl(id, 0, 0) == 0


def a_key_that_stays(host):
    """A key in the ring of the session."""
    return LIBC.syscall(219 if ON_ARM else 250, 0, -3, 1) >= 0


def another_way_to_call(host):
    """A queue of system calls that no filter sees."""
    return LIBC.syscall(425, 1, (ctypes.c_char * 120)()) >= 0


def programs_in_the_kernel(host):
    """A table for programs in the kernel."""
    attributes = (ctypes.c_uint32 * 16)(2, 4, 4, 1)
    return LIBC.syscall(280 if ON_ARM else 321, 0, attributes, 64) >= 0


def faults_by_hand(host):
    """Page faults handled by hand: the favourite of whoever attacks a kernel."""
    return LIBC.syscall(282 if ON_ARM else 323, 1) >= 0


def to_watch_the_machine(host):
    """Counters of the processor, of all processes."""
    attributes = (ctypes.c_uint32 * 32)(1, 128)
    return LIBC.syscall(241 if ON_ARM else 298, attributes, 0, -1, -1, 0) >= 0


def to_watch_the_files(host):
    """To be told when the grader touches its files."""
    watch = LIBC.inotify_init1(0)
    return watch >= 0 and LIBC.inotify_add_watch(watch, os.path.dirname(host.witness).encode(), 0xFFF) >= 0


def memory_without_a_name(host):
    """A file in memory that no limit counts."""
    return os.write(os.memfd_create(host.tag), b"x")


def a_trace_of_its_death(host):
    """To be dumped with all its memory when it dies."""
    resource.setrlimit(resource.RLIMIT_CORE, (1, resource.RLIM_INFINITY))
    return True
