"""Files on their way between this machine and collections: listed, uploaded, downloaded."""
