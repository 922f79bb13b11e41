"""Conversations: who answers, what is saved, what is shown; speakers, tools and settings of a workspace."""
