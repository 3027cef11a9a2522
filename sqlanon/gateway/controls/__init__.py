"""Exact answers for trusted principals, under the policy's `controls`: judged, recorded, audited."""
