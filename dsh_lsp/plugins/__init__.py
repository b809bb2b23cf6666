"""Plugins: tools and policies on the extension points; none knows another."""
