from transformers import BertConfig, BertForSequenceClassification


def model():
    """A classifier of sequences of up to 16 of 50 words, with random weights."""
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=16,
        )
    )
