"""The web console: releases, budgets and questions for people who do not write YAML.

Pages are made on the server and need no script; a little of our own asks for the price of a statement while it is
typed. Nothing is loaded from elsewhere. What a page shows comes from the ledger, from the evidence of releases and from
answers of the gateway: the process that talks to browsers has no database open. A child of it (`read_evidence`) reads
the record of releases, and whatever changes something is a command of `sqlanon` of its own.

    browser -> server.http (limits before anybody is known) -> front_door (who is it) -> asgi_adapter -> site
            -> visit (role, origin, token, password again, audit) -> pages -> templates
"""
