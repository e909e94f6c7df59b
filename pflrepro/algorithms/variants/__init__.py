"""Departures from the methods that a printed number needs, one file a method; named `method/departure`."""
