"""The only place that imports redis: connections, scripts, and typed functions in front of both."""
