"""Nets that draw what comes from outside at random; see each folder."""
