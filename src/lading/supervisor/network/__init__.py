"""The network of a container that asks for one: its own namespace, and what joins it to the rest.

    container_network  what is made for one container, and its end; open this first
    namespace          work inside another network namespace
    routes             what the kernel says of routes (rtnetlink)
    forwarder          TCP connections to the API, made for the container
    resolver           DNS questions, passed on to the resolvers of the machine

Which addresses are refused, and the texts of files and of the packet filter, is decided in
`lading.core.containers.container_network`.
"""
