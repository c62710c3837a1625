"""The fleet of cloud VMs: made when containers wait for them, removed when nobody does."""
