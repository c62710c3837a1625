"""Parts of the engines that ask a daemon with the Docker API: its containers, images, networks."""
