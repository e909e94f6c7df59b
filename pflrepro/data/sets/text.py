"""Texts: news articles (AG News) and product reviews of four domains (Amazon)."""

from __future__ import annotations

from dataclasses import replace

from pflrepro.data.sets.types import RAW, DatasetSpec, SourceFile, preset

# Sizes and MD5 sums as torchtext publishes them, which reads the same two files.
AGNEWS = DatasetSpec(
    name="agnews",
    title="AG News, articles of 4 topics as token ids",
    shape=(200,),
    samples=127_600,
    train_samples=120_000,
    class_names=("World", "Sports", "Business", "Sci/Tech"),
    origin="http://groups.di.unipi.it/~gulli/AG_corpus_of_news_articles.html (through the files that torchtext reads)",
    licence="for research and other non-commercial use",
    citation="X. Zhang, J. Zhao, Y. LeCun: Character-level Convolutional Networks for Text Classification, NeurIPS 2015",
    # lr 0.1 for fastText, batch 10, Dirichlet 1: [GPFL].
    preset=preset("fasttext", 40, lr=0.1, partition="dirichlet:1"),
    to_unit=RAW,
    mirrors=("https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv/",),
    files=(
        SourceFile("train", "train.csv", 29_470_338, md5="b1a00f826fdfbd249f79597b59e1dc12"),
        SourceFile("test", "test.csv", 1_857_427, md5="d52ea96a97a2d943681189a97654912d"),
    ),
    reader="news:articles",
)

_DESCRIPTIONS = "train_partial_description_only.csv"
AGNEWS_PART = replace(
    AGNEWS,
    name="agnews-part",
    title="a part of AG News: the test articles and 11,972 others without titles",
    reduced="19,572 of 127,600 articles: the 7,600 of the official test file, and 11,972 others without their titles",
    samples=19_572,
    train_samples=11_972,
    fingerprint="2270366bdf8ebe996f8ed03b77f31c31617adb7c882b2ec3b1b88d832316f51f",
    mirrors=(),
    files=(
        SourceFile(
            "train", _DESCRIPTIONS, 2_405_905, "51e2fab9359a0dab0c9dc13d7a5f191c6d464ba346e67aa02ccbf474503116db"
        ),
        replace(AGNEWS.files[1], mirrors=AGNEWS.mirrors),
    ),
    reader="news:untitled_articles",
    by_hand=f"docs/data.md says how to write {_DESCRIPTIONS} from two public files (the whole set, agnews, is downloaded)",
)

AMAZON = DatasetSpec(
    name="amazon",
    title="Amazon Review, positive or negative, 4 domains, counts of 5,000 terms",
    shape=(5000,),
    samples=27_677,
    train_samples=None,
    class_names=("negative", "positive"),
    origin="https://www.cs.jhu.edu/~mdredze/datasets/sentiment/ (Multi-Domain Sentiment Dataset 2.0, processed_acl)",
    licence="none stated by the origin, which asks to cite the paper",
    citation="J. Blitzer, M. Dredze, F. Pereira: Biographies, Bollywood, Boom-boxes and Blenders: Domain Adaptation for Sentiment "
    "Classification, ACL 2007",
    # lr 0.005, batch 10; partition "group", one client a domain: [GPFL].
    preset=preset("mlp3", 40, partition="group", clients=4),
    to_unit=RAW,  # [LIB]: no scaling
    mirrors=("https://www.cs.jhu.edu/~mdredze/datasets/sentiment/",),
    files=(SourceFile("archive", "processed_acl.tar.gz"),),  # neither size nor checksum is published
    reader="reviews:all_reviews",
    groups="domain",
)

AMAZON_LABELLED = replace(
    AMAZON,
    name="amazon-labelled",
    title="Amazon Review, only the 2,000 labelled reviews of each domain",
    reduced="8,000 of 27,677 reviews: those of the four files of labelled reviews",
    samples=8_000,
    # of the eight official files of labelled reviews; the reader sorts terms by count and then by name
    fingerprint="ef69e0650096168db4cb546a9b08830068952124ff4577563657efc4f2350678",
    reader="reviews:labelled_reviews",
)

AMAZON_MATRIX = replace(
    AMAZON,
    name="amazon-matrix",
    title="Amazon Review, the term matrix that the papers' platform takes",
    mirrors=(),
    files=(SourceFile("matrix", "amazon.npz"),),
    by_hand="take the file amazon.npz that KD3A (github.com/FengHZ/KD3A) and PFLlib link for Amazon Review",
    reader="reviews:term_matrix",
)
