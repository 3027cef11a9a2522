"""Policy to SQL. Pure: no connection, no clock, no file but the plug-ins' own `.sql` texts."""
