"""Conversations: planning, saving and showing of answers; speakers, tools and settings of a workspace."""
