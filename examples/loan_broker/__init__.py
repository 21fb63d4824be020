"""Generated from loan-broker.mdsl; endpoints are in modules of their own."""
