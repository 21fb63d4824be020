"""The T2 store: a saga over orders, payments and an inventory."""
