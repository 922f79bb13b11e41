"""The Gemini generateContent dialect (v1beta)."""
