"""The store as a file system (FUSE): collections, projects and tags as directories, read-only.

    places       what a path can lead to, and the way there
    library      collections and projects by id, loaded on demand, expired by events
    layout       the directories of a mount: by_id, home, shared, by_tag
    reading      bytes of files: open blocks, read-ahead
    operations   what the kernel asks, answered from the above
    fuse         the binding to libfuse, the only module that knows it
    service      one mount from beginning to end
    points       mount points: look at them, take them away

The kernel's questions come in threads of libfuse. What is known is answered there; the rest is a
call into the event loop, with a time limit, so that nothing hangs when the server does.
"""
