"""`lading runs`: runs of pipelines, listed, shown, followed, compared, changed."""
