"""What guarded LLM calls and agent runs cost, and why they fail, without a prompt leaving the process."""
