"""The PostgreSQL protocol as bytes: messages, codecs, SCRAM and TLS. No sockets, and nothing about privacy."""
