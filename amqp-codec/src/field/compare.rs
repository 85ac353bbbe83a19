use super::Table;
