"""`lading template`: pipelines with named parameters, saved, shown and run."""
