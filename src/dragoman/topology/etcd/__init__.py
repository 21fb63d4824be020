"""Discovery by etcd, over its JSON gateway."""
