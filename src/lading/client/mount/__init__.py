"""The store as a file system (FUSE): collections, projects and tags as directories, read-only.

    places            nodes that a path leads to, and the lookup
    collection_cache  collections and projects by id, loaded on demand, expired by events
    layout            the directories of a mount: by_id, home, shared, by_tag
    reading           bytes of files: open blocks, read-ahead
    operations        the calls of the kernel, answered from the modules above
    fuse              the binding to libfuse, the only module that uses it
    service           one mount from start to end
    points            mount points: checks, unmounting

The kernel's calls arrive in threads of libfuse. Known answers are given there; all others need a
call into the event loop, with a time limit, so that no call hangs when the server does not respond.
"""
