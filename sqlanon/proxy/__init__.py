"""The proxy: PostgreSQL clients, and HTTP, in front of the gateway."""
