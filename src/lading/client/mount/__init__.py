"""The store as a file system (FUSE): collections, projects and tags as directories, read-only.

    nodes        nodes that a path leads to; collections and projects, loaded on demand
    layout       the directories of a mount: by_id, home, shared, by_tag
    operations   the calls of the kernel, and reads of files from open blocks
    fuse         the binding to libfuse, the only module that uses it
    service      one mount from start to end, its process and its mount point

The kernel's calls arrive in threads of libfuse. Known answers are given there; all others need a
call into the event loop, with a time limit, so that no call hangs when the server does not respond.
"""
