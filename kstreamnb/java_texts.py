"""Long error texts of Kafka Streams, which errors quote beside their own words (``java``)."""

STORE_NOT_CONNECTED = (
    "Processor {node} has no access to StateStore {store} as the store is not connected to the processor. "
    "If you add stores manually via '.addStateStore()' make sure to connect the added store to the processor "
    "by providing the processor name to '.addStateStore()' or connect them via '.connectProcessorAndStateStores()'. "
    "DSL users need to provide the store name to '.process()', '.processValues()', or '.transformValues()' to connect "
    "the store to the corresponding operator, or they can provide a StoreBuilder by implementing the stores() method "
    "on the Supplier itself. If you do not add stores manually, please file a bug report at "
    "https://issues.apache.org/jira/projects/KAFKA."
)
CANNOT_READ = (
    "Deserialization exception handler is set to fail upon a deserialization error. If you would rather have the "
    "streaming pipeline continue after a deserialization error, please set the deserialization.exception.handler "
    "appropriately."
)
EXTRACTOR_FAILED = "Fatal user code error in TimestampExtractor callback for record"
NOT_COMPUTED = (
    "Failed to compute number of partitions for all repartition topics, make sure all user input topics are created "
    "and all Pattern subscriptions match at least one topic in the cluster"
)
ACCEPTABLE_OPTIMISATIONS = (
    'Acceptable values are: "+NO_OPTIMIZATION+", "+OPTIMIZE+", or a comma separated list of specific optimizations: '
    '("+REUSE_KTABLE_SOURCE_TOPICS+", "+MERGE_REPARTITION_TOPICS+" + "SINGLE_STORE_SELF_JOIN+").'
)
LIST_NOT_FIXED = (
    "Data is encoded as constant size entries, but configured inner deserializer is not a known fixed-size "
    "deserializer."
)
