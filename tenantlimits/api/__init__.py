"""The usage API: what a tenant may do, does and did, as JSON. It needs Django REST framework."""
