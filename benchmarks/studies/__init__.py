"""The studies of accuracy and certificates: what is compared is declared here, before anything runs."""
