"""The gateway: files of collections over HTTP and WebDAV. It asks the API and the block store as any client does."""
