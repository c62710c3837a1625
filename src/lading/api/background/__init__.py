"""Work of the API in the background: cancellations and consequences for very many records."""
