"""The life cycle of one container: an ordered list of named steps over one value (`run`).

    step       do                                       undo
    record     read the container and its token         nothing
    inputs     make mounts, prepare the image           release cached data, unmount
    container  create it stopped; report Running        remove processes, cgroup, mounts
    command    run it to its end, kill the rest         nothing

Afterwards, in any case, output and log are saved and the end is reported. Each step is journalled,
so that after a crash another process can undo the begun steps (`supervisor.process.standalone`).
Start with `driver`, which goes through the steps. A supervisor hands its running container over
(`handover`), so that another one can go on with it (`resumption`) when it is killed.

The order of writes makes a container run at most once: the record is Running before any code of the
user starts. When that write is refused (cancelled, taken), nothing starts and no more is written.

Final states (docs/spec/containers, section Run): Complete when the command ran, with any exit code,
and its output was saved; Cancelled when it was not started, was stopped or timed out, or its output
was not saved; Queued when stopped before Running. `runtime_status.failure` has a class.

The package belongs to no process: it reads no environment, sets no signal handler, changes neither
working directory nor umask nor user, ends no process, and has no state outside of the value. So
one event loop can drive many containers. The driver of the process does all of that
(`supervisor.process`), and gives the steps a transport, signals as events, and a clock.
"""
