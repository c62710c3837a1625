"""The warm parent: has everything imported, forks one supervisor for each container, and knows those that are there.

    python -m lading.supervisor.zygote --fd N --run DIR/run

N is one end of a socketpair of type SOCK_SEQPACKET; DIR/run holds one run directory for each container. One message
is one JSON object. Each request gets exactly one answer with the same `id` (any JSON value; null when it had none);
answers may come in another order than the requests. Descriptors travel as SCM_RIGHTS with the answer that names them.

    {"op":"start","id":1,"assignment":{...}}  -> {"op":"started","id":1,"uuid":U,"pid":P}            + 1 pidfd
                                                 {"op":"refused","id":1,"uuid":U,"error":"one line"}   nothing was started
    {"op":"signal","id":2,"uuid":U,"signal":"TERM"}
                                              -> {"op":"signalled","id":2,"uuid":U,"delivered":true|false}
                                                 false: nothing runs under this uuid. Signals: TERM INT QUIT USR1 USR2 KILL
    {"op":"list","id":3}                      -> {"op":"listed","id":3,"live":[{"uuid":U,"pid":P},...],"dead":[U,...],
                                                  "more":false}                                        + 1 pidfd each live
                                                 in the order of `live`; several answers when there are many, all but the
                                                 last with "more":true. A supervisor started by an earlier warm parent counts.
                                                 dead: run directories whose supervisor is gone: send `clean` for each.
    {"op":"clean","id":4,"uuid":U}            -> {"op":"cleaned","id":4,"uuid":U,"error":""}
                                                 sent when nothing of it is left: processes, cgroups, mounts, run directory.
                                                 error: a line that says what could not be undone, or that it is alive.
                                                 A container that left nothing is clean already: error "".
    anything else                             -> {"op":"error","id":..,"error":"one line"}

A pidfd becomes readable when its supervisor has ended; the record of the container then says how (state final), or
does not, in which case `clean` must be answered before the record is given back or cancelled. The warm parent ends
when the other end of the socket closes; supervisors live on, in sessions of their own.

The run directory is locked (flock on `lock`) before the fork and for the supervisor's life, so a listing never takes
a starting container for a dead one. USR1 and USR2 have handlers before that, so no probe can kill it
(dispatch-contract A.3): handlers and not SIG_IGN, which the container's command would inherit.
"""
