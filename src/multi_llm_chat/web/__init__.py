"""The web app: several models side by side in one conversation, in the browser.

``web.server.make_app`` gives the application, ``web.server.serve`` runs it.
"""
