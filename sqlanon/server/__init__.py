"""The PostgreSQL wire protocol and an HTTP door in front of the gateway."""
