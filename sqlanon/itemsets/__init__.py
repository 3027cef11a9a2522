"""Persons as sets of items: who has what, the sets of items that occur and those that break a model, item trees."""
