// A libcoreclr.so of .NET Core 2, as far as its version goes.
__attribute__((used)) static const char version[] = "@(#)Version 4.6.29719.3 @Commit: made up";

const char *made_up_version(void)
{
    return version;
}
