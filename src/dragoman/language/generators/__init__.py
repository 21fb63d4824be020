"""What is made from a model: AsyncAPI, schemas, pictures, code."""
