"""Becomes the user of a place, with or without the right to make user namespaces, and runs a program.

    enter.py UID yes|no PROGRAM ARGUMENT…
"""

import ctypes
import os
import sys

CLONE_NEWUSER = 0x10000000


def main():
    uid, namespaces, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if namespaces == "no":
        forbid_user_namespaces()
    if uid:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.execv(argv[0], argv)


def forbid_user_namespaces():
    """Enters a user namespace with the same ids, in which `user.max_user_namespaces` is 0. It is a setting of each namespace."""
    ready, mapped = os.pipe(), os.pipe()
    child = os.fork()
    if child:
        # Only a process outside of the new namespace may map all ids.
        os.read(ready[0], 1)
        for ids in ("uid_map", "gid_map"):
            with open(f"/proc/{child}/{ids}", "w") as file:
                file.write("0 0 4294967295")
        os.write(mapped[1], b"x")
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        sys.exit(f"enter.py: cannot make a user namespace: {os.strerror(ctypes.get_errno())}")
    os.write(ready[1], b"x")
    os.read(mapped[0], 1)
    with open("/proc/sys/user/max_user_namespaces", "w") as file:
        file.write("0")


if __name__ == "__main__":
    main()
