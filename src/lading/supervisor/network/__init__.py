"""The network of a container: its own namespace, and its connections.

    container_network  the network of one container, from its start to its end; open this first
    routes             routes of the kernel (rtnetlink)
    forwarder          TCP connections to the API on behalf of the container, and DNS queries,
                       forwarded to the resolvers of the machine

Refused addresses, and the texts of files and of the packet filter, are decided in
`lading.core.containers.container_network`.
"""
