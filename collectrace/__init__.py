"""Find the first collective where the ranks of a torch.distributed job part ways."""
