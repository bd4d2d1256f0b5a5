"""Acts on the network, never farther than this machine: each function gives whether it succeeded, and says what it tries."""

import asyncio
import ctypes
import http.server
import os
import socket
import ssl
import urllib.request


def a_connection(host):
    """A connection."""
    return socket.create_connection(("127.0.0.1", host.port), 1).send(b"x")


def a_connection_of_the_new_kind(host):
    """A connection of IPv6, to an address of IPv4."""
    line = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    line.settimeout(1)
    line.connect(("::ffff:127.0.0.1", host.port))
    return line.send(b"x")


def a_connection_in_c(host):
    """A connection by the C library."""
    libc = ctypes.CDLL(None, use_errno=True)
    line = libc.socket(2, 1, 0)
    address = b"\x02\x00" + host.port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
    return libc.connect(line, address, 16) == 0


def a_page(host):
    """A page, with what was found in its address."""
    return urllib.request.urlopen(f"http://127.0.0.1:{host.port}/found", timeout=0.2)


def a_loop(host):
    """A connection by an event loop."""
    return asyncio.run(asyncio.wait_for(asyncio.open_connection("127.0.0.1", host.port), 1))


def a_letter(host):
    """A datagram."""
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", host.letters))


def a_question_for_a_name(host):
    """A datagram that asks for a name, with a secret in it, as a name server would pass on."""
    asked = b"\x00\x01\x01\x00\x00\x01" + bytes(6) + b"\x06secret\x00\x00\x01\x00\x01"
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(asked, ("127.0.0.1", host.letters))


def a_door(host):
    """A connection to a file that is a door."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(host.door)
    return line.send(b"x")


def a_door_without_a_file(host):
    """A connection to a door that stands in no folder."""
    line = socket.socket(socket.AF_UNIX)
    line.connect("\0" + host.tag)
    return line.send(b"x")


def a_server(host):
    """A server."""
    return socket.create_server(("127.0.0.1", 0)).fileno()


def a_server_of_files(host):
    """A server of all files."""
    return http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler).fileno()


def a_pair(host):
    """Two ends of a line, as a start."""
    return socket.socketpair()[0].fileno() + 1


def raw_packets(host):
    """Packets of any kind."""
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).fileno()


def words_with_the_kernel(host):
    """A line to the kernel's own network."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).fileno()


def the_cipher_of_the_kernel(host):
    """The kernel's own ciphers, a door that nobody expects."""
    return socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0).fileno()


def the_machine_below(host):
    """A line to the machine on which this one is a guest."""
    return socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM).fileno()


def a_secret_line(host):
    """An encrypted line."""
    return ssl.create_default_context().wrap_socket(
        socket.create_connection(("127.0.0.1", host.port), 1), do_handshake_on_connect=False
    )


def an_inherited_line(host):
    """A connection with a line that was inherited."""
    for fd in range(3, 64):
        try:
            socket.socket(fileno=os.dup(fd)).connect(("127.0.0.1", host.port))
        except OSError:
            continue
        return True
    return False
