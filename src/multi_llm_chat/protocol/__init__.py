"""What is said to providers and what they answer, without input or output: requests, replies, failures, retries."""
