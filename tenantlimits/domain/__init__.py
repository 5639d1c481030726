"""Pure rules of limits on plain values: no framework, no store, no clock."""
