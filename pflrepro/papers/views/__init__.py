"""The ways to show an artefact."""
