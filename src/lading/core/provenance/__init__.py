"""Documents of provenance for other programs. Start with `run_crate`."""
