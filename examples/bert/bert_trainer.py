from ravnest import Trainer


class BertTrainer(Trainer):
    """A training loop of one's own. It runs on the root; stem and leaf wait for its end, and when
    it returns, the training ends on all of them."""

    def train(self):
        self.prelim_checks()
        for epoch in range(self.epochs):
            for batch in self.train_loader:
                self.node.forward_compute(
                    tensors=batch["input_ids"], attention_mask=batch["attention_mask"]
                )
                self.n_forwards += 1
            self.node.wait_for_backwards()
            print(f"epoch {epoch + 1} of {self.epochs}: {self.validate():.2f} %")

    def validate(self):
        for batch in self.val_loader:
            self.node.no_grad_forward_compute(
                {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]},
                output_type="val_accuracy",
            )
        return self.node.finish_validation()
